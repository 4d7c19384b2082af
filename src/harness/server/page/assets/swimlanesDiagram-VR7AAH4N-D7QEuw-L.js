import{r as e,t}from"./chunk-SHT3W25Y-CfvMhYEP.js";import"./chunk-POPQ4Y6H-BSS3QZfN.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-M4vgWbdy.js";import"./chunk-F27PBJKO-BdwRhgdU.js";import"./chunk-L3NEJ4N5-Bj8qw_hB.js";import"./chunk-OSK3NFVY-D7lI7Iw0.js";import"./chunk-GVQU2GXP-B8oCdZ79.js";import"./chunk-4HAMMTFA-BtdJdt8y.js";import"./chunk-P2QGCYS3-D2AEL0Mg.js";import"./chunk-GMAD6QVW-DjxAQAbg.js";import"./chunk-PWAF6VOD-CW0J-Wsd.js";import"./chunk-75Z2AOVW-ByGEHWwC.js";import"./chunk-DU6HZSFF-UT7PvzUv.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};