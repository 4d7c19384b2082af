import{r as e,t}from"./chunk-SHT3W25Y-CcF97Iuv.js";import"./chunk-POPQ4Y6H-CmEIQjAU.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-Dji87AGA.js";import"./chunk-F27PBJKO-CMKudJwa.js";import"./chunk-L3NEJ4N5-D3-2RSA0.js";import"./chunk-OSK3NFVY-ujGXa4tI.js";import"./chunk-GVQU2GXP-neMKlwx8.js";import"./chunk-4HAMMTFA-B0Sf7BjI.js";import"./chunk-P2QGCYS3-BxCWOnoz.js";import"./chunk-GMAD6QVW-SJOtNJ4Y.js";import"./chunk-PWAF6VOD-C0HnaSa8.js";import"./chunk-75Z2AOVW-DZ4HisaL.js";import"./chunk-DU6HZSFF-CS4JkkzA.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};