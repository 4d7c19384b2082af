import{r as e,t}from"./chunk-SHT3W25Y-D9kKNp-L.js";import"./chunk-POPQ4Y6H-CoiT0k0m.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-CQArsAFi.js";import"./chunk-F27PBJKO-m9Ld3dyT.js";import"./chunk-L3NEJ4N5-BMp1HZWp.js";import"./chunk-OSK3NFVY-DwvHUn_O.js";import"./chunk-GVQU2GXP-5-mGoE6D.js";import"./chunk-4HAMMTFA-DQ3l_71G.js";import"./chunk-P2QGCYS3-CXBLw1rE.js";import"./chunk-GMAD6QVW-Bs8pl1ox.js";import"./chunk-PWAF6VOD-Dz56tw19.js";import"./chunk-75Z2AOVW-B4GG4-6e.js";import"./chunk-DU6HZSFF-glV8SZta.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};